"""Single-site methods on arrays: ``fit``, and estimators in the manner of scikit-learn around it."""
