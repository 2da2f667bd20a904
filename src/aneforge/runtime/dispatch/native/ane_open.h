/* The dispatch ABI: what a client calls to compile a MIL program, fill its ports, run it and read what it gave.
 *
 * The functions of the first part are bound by clients as they are here. Those of the second part are documented for
 * experiments (aneforge docs, e5rt dispatch reference); what is not stated there is ours, and marked "inferred".
 *
 * Everything may be called from any thread; calls on one handle come one after the other. Functions that return int
 * give 0, or a negative number, and say why on stderr. A handle that was released, that another process made or that
 * never was gives -1. A forked child may compile its own programs; what it inherited gives -1, and releasing it leaves
 * the parent's program alone.
 */

#ifndef ANE_OPEN_H
#define ANE_OPEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ANE_OPEN_EXPORT __attribute__((visibility("default")))

enum {
    ANE_OK = 0,
    ANE_FAILED = -1,
    ANE_NO_OPTION = -2,      /* compile_check: no such option. */
    ANE_NOT_SUBMITTED = -2,  /* wait_for_completion: nothing was ever submitted. */
    ANE_ENGINE = 0x4,        /* The bit of the Neural Engine in a device mask. */
};

typedef void *ane_program;

/* Part 1: one program. ------------------------------------------------------------------------------------------- */

/* Compiles `mil_path` (a file, its weights beside it) and returns a handle, or NULL. Ports are given by the names that
 * the MIL text has, in any order, each with its bytes: two for an fp16 number, one for a uint8, rounded up to even.
 * `cache_dir` is for compilers that keep what they made; it is not read here, nor written. The mask must have the bit of the Neural Engine: nothing here computes as another device. */
ANE_OPEN_EXPORT ane_program ane_e5rt_program_compile(const char *mil_path, const char *cache_dir, uint64_t device_mask,
                                                     const char *const *in_names, const size_t *in_bytes, size_t n_in,
                                                     const char *const *out_names, const size_t *out_bytes,
                                                     size_t n_out);

/* Copies elements of two bytes into an input port; fewer leave the rest as it was, more are refused. */
ANE_OPEN_EXPORT int ane_e5rt_program_set_input_fp16(ane_program handle, const char *port, const uint16_t *data,
                                                    size_t n_elems);

/* Copies elements of two bytes from an output port, as many as it has at most. */
ANE_OPEN_EXPORT int ane_e5rt_program_get_output_fp16(ane_program handle, const char *port, uint16_t *dest,
                                                     size_t n_elems);

/* Runs the first operation once. Inferred: not those that add_op added, which execute_multi runs too. */
ANE_OPEN_EXPORT int ane_e5rt_program_execute(ane_program handle);

/* Where a port's bytes lie, for as long as the handle lives; each pointer may be NULL. 64-byte aligned, zeros at
 * first. */
ANE_OPEN_EXPORT int ane_e5rt_program_input_buffer(ane_program handle, const char *port, void **pointer, size_t *bytes);
ANE_OPEN_EXPORT int ane_e5rt_program_output_buffer(ane_program handle, const char *port, void **pointer,
                                                   size_t *bytes);

/* Gives an input port the buffer and the size of an output port. Before the first execution, and again after add_op. */
ANE_OPEN_EXPORT int ane_e5rt_program_share_buffer(ane_program handle, size_t src_op, const char *src_out_port,
                                                  size_t dst_op, const char *dst_in_port);

ANE_OPEN_EXPORT void ane_e5rt_program_release(ane_program handle);

/* Says whether a target takes the program as it is: 0, -1, or -2 for an option that is not known. `options` is NULL or
 * "TargetArchitecture=h13". */
ANE_OPEN_EXPORT int ane_e5rt_compile_check(const char *mil_path, const char *cache_dir, uint64_t device_mask,
                                           const char *options);

/* Part 2: several operations in one stream, chains, events, asynchronous execution. ------------------------------- */

/* Adds an operation of one input and one output, and returns its index, or -1. */
ANE_OPEN_EXPORT int ane_e5rt_program_add_op(ane_program handle, const char *mil_path, const char *in_name,
                                            size_t in_bytes, const char *out_name, size_t out_bytes);

/* Inferred: 0 where there is no such program. */
ANE_OPEN_EXPORT size_t ane_e5rt_program_get_op_count(ane_program handle);
ANE_OPEN_EXPORT int ane_e5rt_program_set_input_fp16_op(ane_program handle, size_t op, const char *port,
                                                       const uint16_t *data, size_t n_elems);
ANE_OPEN_EXPORT int ane_e5rt_program_get_output_fp16_op(ane_program handle, size_t op, const char *port,
                                                        uint16_t *dest, size_t n_elems);

/* Runs every operation once, in order. No event moves. */
ANE_OPEN_EXPORT int ane_e5rt_program_execute_multi(ane_program handle);

/* Lets an operation wait, in asynchronous executions, for the event of an earlier one. Inferred: the event's name may
 * be any but NULL and the empty one. */
ANE_OPEN_EXPORT int ane_e5rt_program_chain_ops(ane_program handle, size_t src_op, size_t dst_op,
                                               const char *event_name);

/* The value that the event of an operation reached, or of the operation that it waits for; the pointer may be NULL. */
ANE_OPEN_EXPORT int ane_e5rt_program_get_event_last_signaled(ane_program handle, size_t op, uint64_t *value);
ANE_OPEN_EXPORT int ane_e5rt_program_get_chain_event_last_signaled(ane_program handle, size_t op, uint64_t *value);

/* Runs every operation in order, after what was submitted before, and returns at once. */
ANE_OPEN_EXPORT int ane_e5rt_program_execute_async(ane_program handle);

/* Waits for all that was submitted; -2 if nothing ever was, -1 if an execution failed. */
ANE_OPEN_EXPORT int ane_e5rt_program_wait_for_completion(ane_program handle);

/* The value of the last operation's event before and after the last submission; each pointer may be NULL. */
ANE_OPEN_EXPORT int ane_e5rt_program_get_final_event_signaled(ane_program handle, uint64_t *before, uint64_t *after);

/* A block such as compilers make of a closure, for whatever takes one when a submission ends: it calls the function.
 * Inferred: the function's type. */
typedef void (*ane_completion)(void *context);
ANE_OPEN_EXPORT void *ane_e5rt_make_completion_block(ane_completion function, void *context);
ANE_OPEN_EXPORT void ane_e5rt_free_completion_block(void *block);

/* Part 3: this library alone. -------------------------------------------------------------------------------------- */

/* Chooses what this thread's next programs are compiled for, in place of ANEFORGE_TARGET; NULL for that again. A client
 * that finds this function knows that what answers is no silicon. */
ANE_OPEN_EXPORT void ane_open_use_target(const char *target);

enum {
    ANE_OPEN_INPUT = 0,
    ANE_OPEN_OUTPUT = 1,
};

/* share_buffer between the first operations of two programs, for ports of either direction: a port of one has the buffer
 * and the size of a port of the other from now on, and keeps it when that one is released. Before the first execution of
 * the one that takes it. */
ANE_OPEN_EXPORT int ane_open_lend_port(ane_program src, int src_direction, const char *src_port, ane_program dst,
                                         int dst_direction, const char *dst_port);

#ifdef __cplusplus
}
#endif

#endif
