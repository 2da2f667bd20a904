"""What each command of `aneforge` computes: one module for each command, named after it (`check`: `checking`).

A command takes a model and targets, asks the stages below, and returns data: a report, or a record of its own. It
parses no arguments and prints nothing (`aneforge.cli` does), and writes no form of a report (`aneforge.report` does).
The functions are documented as names of `aneforge.report`.
"""
