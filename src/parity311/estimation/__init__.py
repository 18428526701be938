"""Records and a calibration become the params of a decision process."""
