"""What runs gave before a rebuild: fingerprints of seeded runs, and a test that they still hold."""
