"""MIL text and its weights: reader, writer and dialect.

The text is that of programs which Apple's compilers write and which ANEForge 0.4.0 and public experiments (maderix)
hand to them: a head with build info, functions with an opset, typed statements, constants in the text or in a weights
blob, states.
"""
