"""The target database: families, compiler targets, chips, hardware parameters, limits, each with its evidence.

Data files under `data/` hold the facts; the modules here read them into small typed classes and answer questions.
No other package folder names a chip or a target.

>>> m1 = resolve("m1")
>>> m1.name, m1.family.name, m1.hal.texture_engine
('h13', 'A13', False)
>>> print(m1.evidence("texture_engine").kind)
measured
"""

from aneforge.targets.database import Database, database
from aneforge.targets.family import MIN_FAMILY, Family, LegalityFamily, family_of, supports_mil
from aneforge.targets.host import Host, detect_family, detect_target
from aneforge.targets.names import chip
from aneforge.targets.properties import Fact, Properties, Property, Value
from aneforge.targets.queries import (
    FP16_SLICE_SAT,
    arch_for_family,
    family_of_arch,
    first_tier_with,
    has_texture_engine,
    limit,
    native_streams,
)
from aneforge.targets.resolve import GROUPS, TargetLike, group, place_of, resolve
from aneforge.targets.target import (
    Chip,
    Clock,
    Conflict,
    DescriptorGeneration,
    ImageFormats,
    Kind,
    Place,
    Stream,
    Target,
    Tier,
)

__all__ = [
    "FP16_SLICE_SAT",
    "GROUPS",
    "MIN_FAMILY",
    "Chip",
    "Clock",
    "Conflict",
    "Database",
    "DescriptorGeneration",
    "Fact",
    "Family",
    "Host",
    "ImageFormats",
    "Kind",
    "LegalityFamily",
    "Place",
    "Properties",
    "Property",
    "Stream",
    "Target",
    "TargetLike",
    "Tier",
    "Value",
    "arch_for_family",
    "chip",
    "database",
    "detect_family",
    "detect_target",
    "family_of",
    "family_of_arch",
    "first_tier_with",
    "group",
    "has_texture_engine",
    "limit",
    "native_streams",
    "place_of",
    "resolve",
    "supports_mil",
]
