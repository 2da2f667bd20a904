"""The builder's free functions, by what they do; all of them are exported as `aneforge.NAME`."""
