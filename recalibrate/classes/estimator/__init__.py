"""Any scikit-learn regressor as a class H, and everything that is special about it."""
