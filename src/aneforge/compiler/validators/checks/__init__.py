"""The rules over layers, one module per subject matter. A `Rule` declared in a module here is a validator's."""
