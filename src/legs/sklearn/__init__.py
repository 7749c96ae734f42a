"""Scikit-learn estimators: lists of graphs in, features or predictions out."""

from legs.sklearn.estimators import LEGSClassifier, LEGSRegressor
from legs.sklearn.scattering import GeometricScattering

__all__ = ["GeometricScattering", "LEGSClassifier", "LEGSRegressor"]
