"""The public names of the room, imported when they are first asked for."""

from .architecture import DecoderConfig as DecoderConfig
from .architectures import describe_decoder as describe_decoder
from .architectures import names as names
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import FolderCheckpoint as FolderCheckpoint
from .gguf import GgufCheckpoint as GgufCheckpoint
from .language_model import LanguageModel as LanguageModel
from .language_model import load as load
from .planning import DecoderPlan as DecoderPlan
from .planning import plan_decoder as plan_decoder
from .settings import ModelSettings as ModelSettings
from .speculative import Speculation as Speculation
from .speculative import draft_by_model as draft_by_model
from .speculative import draft_by_repetition as draft_by_repetition
from .speculative import generate_speculatively as generate_speculatively
from .token_sampling import Sampling as Sampling
from .token_sampling import choose_token as choose_token
from .tokenizer import TextTokenizer as TextTokenizer
