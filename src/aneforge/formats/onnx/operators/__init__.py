"""The converters of ONNX's operators, a module a group; `aneforge.formats.onnx.registry` imports all of them."""
