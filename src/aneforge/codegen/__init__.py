"""Programs written in the forms that other tools read: MIL text with its weights, network descriptions."""
