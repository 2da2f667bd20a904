"""Whole data sets on every chip: sources of samples, shards of them run as pure tasks, and what the results add up to.

A run is a job (compiled programs, the graph of the float32 reference, a metric) and shards of samples. One function
turns a job and a shard into bytes, in this process or in any other: neither the order of the shards nor the number of
processes changes one of them. The bytes of every shard are kept in the folder of the run, from which an interrupted
run goes on; the summary is computed from that folder only.
"""
