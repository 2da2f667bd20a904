"""What every value of a program can hold, told from declared ranges, weights and samples."""
