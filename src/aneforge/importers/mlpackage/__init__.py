"""ML packages (.mlpackage) and bare model files (.mlmodel) with an ML program, read into graphs.

The protobuf classes are coremltools'; the weights blob and the way from operations to nodes are those of MIL text.
"""

from aneforge.importers.mlpackage.model import MlPackage, from_mlpackage, load_mlpackage

__all__ = ["MlPackage", "from_mlpackage", "load_mlpackage"]
