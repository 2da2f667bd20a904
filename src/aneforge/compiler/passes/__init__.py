"""The passes, one file each: fusion first, then legalisation. `aneforge.compiler.pipeline` puts them in order."""
