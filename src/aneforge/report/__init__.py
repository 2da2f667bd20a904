"""What the command line shows, as data: one function for each command, one report of a model on several targets.

The room holds the report's model, its gate and its written forms. The functions that make reports are in
`aneforge.commands`, a later stage, and are documented as names of this module, so they can be imported from here: every
name is listed below, typed in `__init__.pyi` and imported when it is first asked for.

>>> import aneforge as af
>>> from aneforge.report import check
>>> check(af.input((1, 4), name="x").relu(), af.targets.Family.A13).targets[0].ok
True
"""

import lazy_loader  # pyright: ignore[reportMissingTypeStubs] - it has none; `__init__.pyi` types what it attaches

__getattr__, __dir__, __all__ = lazy_loader.attach(  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - as above
    "aneforge",
    submod_attrs={
        "commands.benching": ["bench"],
        "commands.checking": ["CheckOptions", "check"],
        "commands.collecting": ["collect"],
        "commands.collection": ["read_collection"],
        "commands.collection_comparison": ["compare_collection"],
        "commands.comparing": ["compare"],
        "commands.compiling": ["compile_model"],
        "commands.demo_networks": ["network"],
        "commands.demonstration": ["demonstrated"],
        "commands.diffing": ["diff"],
        "commands.doctoring": ["doctor"],
        "commands.explaining": ["explain"],
        "commands.listing": ["list_ops", "list_targets"],
        "commands.outputs": ["save"],
        "commands.reducing": ["reduce_model"],
        "commands.running": ["run_model"],
        "report.forms": ["written_form"],
        "report.gate": ["Threshold", "outcome"],
        "report.model": ["Report"],
        "report.written": ["load_report", "report_from_json", "report_to_json"],
    },
)
