"""
Molecule properties from SMILES
===============================

SMILES strings and one target each are all that :class:`legs.sklearn.LEGSRegressor` needs. The
molecules are NCI compounds, which come with RDKit; the target is the polar surface area (TPSA),
which indicates how easily a molecule passes a membrane.
"""

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legs.data import load
from legs.report import residual_figure, save
from legs.sklearn import GeometricScattering, LEGSRegressor

data = load("nci-5k", limit=700)
smiles = np.array(data.smiles)
tpsa = data.y[:, data.target_names.index("TPSA")].numpy()
train, test, y_train, y_test = train_test_split(smiles, tpsa, test_size=200, random_state=0)

# %%
# The default node features for molecules are ``"chem"`` (element, charge, ring, …). A tenth
# of the training molecules decides when training stops.
model = LEGSRegressor(max_epochs=40, lr=0.003, validate_every=5, refit=False)
model.fit(train, y_train)
print(f"learned scattering: R² = {model.score(test, y_test):.2f}")
print(f"aspirin: {model.predict(['CC(=O)Oc1ccccc1C(=O)O'])[0]:.0f} Å², by RDKit's rules 64")

# %%
# Never trust one model alone. Fixed scattering and a linear model:
linear = make_pipeline(GeometricScattering(), StandardScaler(), RidgeCV(np.logspace(0, 5, 11)))
linear.fit(train, y_train)
print(f"fixed scattering, ridge regression: R² = {linear.score(test, y_test):.2f}")

# %%
figure = residual_figure(y_test, model.predict(test), "TPSA / Å²")
save(figure, "tpsa")
