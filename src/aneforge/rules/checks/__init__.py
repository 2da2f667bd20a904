"""The rules themselves, one module per subject matter. A `Rule` declared in a module here is part of the catalogue."""
