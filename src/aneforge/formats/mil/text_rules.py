"""Rules about the text of a MIL program: its form, names, types, numbers, and what an operation is given.

The lessons that public experiments with MIL text report (maderix: epsilon, booleans, scalar axes) and the forms
that ANEForge 0.4.0 emits are the sources; what only a parser can ask (a bracket that is never closed) is our own.
"""

from __future__ import annotations

from aneforge.formats.mil.diagnostics import MilRule
from aneforge.rules.rule import Severity

UNEXPECTED = MilRule.of(
    "MIL-SYNTAX-001",
    """Expected {expected}, got {found}.

    Remedy: write {expected} there.
    """,
)
TRUNCATED = MilRule.of(
    "MIL-SYNTAX-002",
    """The text ends inside {name}.

    Remedy: check whether the file is truncated; {expected} is missing.
    """,
    found="the end of the text",
)
TOO_DEEP = MilRule.of(
    "MIL-SYNTAX-003",
    """Brackets are nested too deeply.

    Remedy: write what is nested as statements of their own.
    """,
)
MISMATCHED = MilRule.of(
    "MIL-SYNTAX-004",
    """{found} closes a bracket that is not open, or not the one that was opened last.

    Remedy: close every bracket in the order of opening; {expected} belongs here.
    """,
)
NESTED_BLOCK = MilRule.of(
    "MIL-SYNTAX-005",
    """A statement contains a block of statements.

    Remedy: compute both branches and choose with select; a loop of a fixed count can be unrolled.

    Blocks of cond and while_loop are outside the dialect that is read here.
    """,
)
UNCLOSED_TEXT = MilRule.of(
    "MIL-SYNTAX-006",
    """A quoted text is not closed on its line.

    Remedy: close it with a quotation mark; a line break inside is written \\n.
    """,
    found="the end of the line",
    expected="'\"'",
)
NOT_TEXT = MilRule.of(
    "MIL-SYNTAX-007",
    """The file is not UTF-8 text.

    Remedy: give the model.mil file itself; weights are in a separate file.
    """,
)
COMMENT = MilRule.of(
    "MIL-SYNTAX-008",
    """MIL text has no comments.

    Remedy: remove the comment.
    """,
    expected="a statement",
)
ESCAPE = MilRule.of(
    "MIL-TEXT-001",
    """A quoted text has an escape that is not known.

    Remedy: write a quotation mark as \\", a backslash as \\\\, and other characters as themselves or as \\uXXXX.
    """,
    expected="the escapes of JSON",
)

TWICE = MilRule.of(
    "MIL-NAME-001",
    """{name} is defined twice.

    Remedy: rename one of the two; every value is defined once.
    """,
    found="{name} again",
    expected="another name",
)
UNDEFINED = MilRule.of(
    "MIL-NAME-002",
    """{name} is not defined.

    Remedy: define it in an earlier statement, or use the name of a value that is defined.
    """,
    found="{name}",
    expected="the name of a value that is defined before",
)
LATER = MilRule.of(
    "MIL-NAME-003",
    """{name} is used before it is defined.

    Remedy: put the statement that defines it before this one; statements that read each other form a cycle.
    """,
)
UNNAMED = MilRule.of(
    "MIL-NAME-004",
    """The statement has no name attribute.

    Remedy: add {expected} after the parameters.
    """,
)
FUNCTION_TWICE = MilRule.of(
    "MIL-NAME-005",
    """Two functions are called {name}.

    Remedy: give them different names.
    """,
    found="{name} again",
    expected="another name",
)
NO_FUNCTION = MilRule.of(
    "MIL-NAME-006",
    """The program has no function.

    Remedy: add one, such as {expected}.
    """,
    found="an empty program",
)

NO_OUTPUT = MilRule.of(
    "MIL-NAME-007",
    """Function {name} returns nothing and writes no state.

    Remedy: name what it returns, as in {expected}.
    """,
    found="()",
)

RESULT_TYPE = MilRule.of(
    "MIL-TYPE-001",
    """{name} is not of the type that the operation gives.

    Remedy: write {expected}.
    """,
)
UNKNOWN_DTYPE = MilRule.of(
    "MIL-TYPE-002",
    """Unknown element type {name}.

    Remedy: write {expected}.
    """,
    found="{name}",
)
UNKNOWN_EXTENT = MilRule.of(
    "MIL-TYPE-003",
    """{name} has an axis of unknown length.

    Remedy: give every axis of an input its length, in the text or by shapes=; the engine takes fixed shapes.
    """,
)
TYPE_TOO_LARGE = MilRule.of(
    "MIL-TYPE-004",
    """A type has more axes, or a longer axis, than a tensor can have here.

    Remedy: check for an extra digit.
    """,
)
LITERAL_SHAPE = MilRule.of(
    "MIL-TYPE-005",
    """The values of a literal do not fill its type.

    Remedy: give as many values as the type has elements, in one list or nested as its axes are.
    """,
)
WRONG_SORT = MilRule.of(
    "MIL-TYPE-006",
    """{name} has a type that is not allowed here.

    Remedy: write {expected}.
    """,
)
NUMBER = MilRule.of(
    "MIL-NUMBER-001",
    """A value does not match its element type.

    Remedy: write {expected}.
    """,
)
NUMBER_RANGE = MilRule.of(
    "MIL-NUMBER-002",
    """A number is out of range.

    Remedy: give one within it, or another element type.
    """,
)

UNKNOWN_OP = MilRule.of(
    "MIL-OP-001",
    """There is no operation {name}.

    Remedy: use one of those that the reference of operations lists under MIL.
    """,
    found="{name}",
    expected="an operation of MIL",
)
NO_GRAPH_FORM = MilRule.of(
    "MIL-OP-002",
    """The operation has no form in a graph.

    Remedy: write it with operations that have one.
    """,
    found="{op}",
    expected="operations that have one",
)
NOT_FITTING = MilRule.of(
    "MIL-OP-003",
    """{name}.

    Remedy: the reference of operations says what each takes.

    The message is the operation's own: its operands or attributes do not fit it.
    """,
    found="something else",
    expected="what the operation takes",
)
NEWER_OPSET = MilRule.of(
    "MIL-OP-004",
    """The operation came in this form with opset {expected}; the function states {found}.

    Remedy: state {expected} or a later opset.
    """,
)
UNKNOWN_OPSET = MilRule.of(
    "MIL-OP-005",
    """The function states opset {found}, which is not known; its operations are not checked against it.

    Remedy: state one of {expected}, if the program needs nothing later.
    """,
    Severity.WARN,
)

UNKNOWN_PARAMETER = MilRule.of(
    "MIL-PARAM-001",
    """There is no parameter {name}.

    Remedy: remove it, or give the parameter that is meant.
    """,
    found="{name}",
)
MISSING_PARAMETER = MilRule.of(
    "MIL-PARAM-002",
    """Parameter {name} is missing.

    Remedy: add {expected}.
    """,
    found="no {name}",
)
PARAMETER_TWICE = MilRule.of(
    "MIL-PARAM-003",
    """Parameter {name} is given twice.

    Remedy: give it once.
    """,
    found="{name} again",
    expected="{name} once",
)
NOT_CONSTANT = MilRule.of(
    "MIL-PARAM-004",
    """Parameter {name} is not known when the program is compiled.

    Remedy: give it as a const; where a weight is computed at run time, use matmul in place of linear.
    """,
)
PARAMETER_SORT = MilRule.of(
    "MIL-PARAM-005",
    """Parameter {name} has the wrong type.

    Remedy: write {expected}.
    """,
)
RESULT_COUNT = MilRule.of(
    "MIL-PARAM-006",
    """The number of results that the statement names differs from that of the operation.

    Remedy: name {expected}, with their types, separated by commas.
    """,
)
TRUTH_VALUE = MilRule.of(
    "MIL-BOOL-001",
    """Parameter {name} is not a boolean.

    Remedy: write bool(true) or bool(false), inline or as a const of type bool.
    """,
)
SCALAR = MilRule.of(
    "MIL-SCALAR-001",
    """Parameter {name} is one number, and is given as a tensor.

    Remedy: write {expected}, inline or as a const of that type; a tensor of one axis and one element is not a scalar.
    """,
)
LIST = MilRule.of(
    "MIL-LIST-001",
    """Parameter {name} is a list, and is given as something else.

    Remedy: write {expected}, inline or as a const of that type.
    """,
)

NOT_A_STATE = MilRule.of(
    "MIL-STATE-001",
    """{name} is not a state.

    Remedy: read and write an input of type state<tensor<…>>.
    """,
)
STATE_AS_TENSOR = MilRule.of(
    "MIL-STATE-002",
    """{name} is a state, and a tensor belongs here.

    Remedy: read it first, with read_state(input = {name}).
    """,
)
STATE_DATA = MilRule.of(
    "MIL-STATE-003",
    """The value written to state {name} is not of its type.

    Remedy: write {expected}.
    """,
)
RESERVED = MilRule.of(
    "MIL-META-001",
    """A build-info entry of this package's own cannot be read.

    Remedy: remove the entries whose names begin with "aneforge."; only the names of ports and their promises are lost.
    """,
)
