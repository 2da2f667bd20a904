"""Legality rules: one function is one rule, one id, one message, one line of the generated documentation."""

from aneforge.rules.catalogue import check, explain, rules, rules_in
from aneforge.rules.rule import Finding, Relation, Rule, Seen, Severity, rule
from aneforge.rules.subject import Operation, Subject, TensorType

__all__ = [
    "Finding",
    "Operation",
    "Relation",
    "Rule",
    "Seen",
    "Severity",
    "Subject",
    "TensorType",
    "check",
    "explain",
    "rule",
    "rules",
    "rules_in",
]
