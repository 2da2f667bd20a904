"""Where every tensor of a scheduled program is: on chip or in DRAM, at which offset, in which of nine states."""
