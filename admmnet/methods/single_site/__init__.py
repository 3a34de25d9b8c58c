"""The methods of one holder: one file each."""
