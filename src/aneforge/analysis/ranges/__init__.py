"""What every value of a program can hold, from declared ranges, weights and samples."""
