"""ML packages (.mlpackage) and bare model files (.mlmodel) with an ML program: reader, writer and dialect.

The protobuf classes are coremltools'; the weights blob and the way from operations to nodes are those of MIL text.
"""
