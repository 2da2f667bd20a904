"""The converters of ONNX's operators, a module a group; `aneforge.importers.onnx.registry` imports all of them."""
