"""ONNX models, read into graphs: files, bytes and `ModelProto`s, of operator sets 6 to the newest that is installed."""
