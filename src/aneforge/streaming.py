"""The documented import path `aneforge.streaming`: layers that share programs.

Names only; `aneforge.train.layer_stack` holds the code.
"""

from aneforge.train.layer_stack import CheckpointedStack

__all__ = ["CheckpointedStack"]
