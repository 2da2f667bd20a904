"""The public names of the room, imported when they are first asked for."""

from .architecture import DecoderConfig as DecoderConfig
from .architectures import describe_decoder as describe_decoder
from .architectures import names as names
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import FolderCheckpoint as FolderCheckpoint
from .settings import ModelSettings as ModelSettings
