"""
Embed molecules and find similar ones
=====================================

Fixed scattering needs no training and no targets. It turns every molecule of a library into a
feature vector; nearby vectors are similar molecules. For a library in a file there is
``legs embed legs-fixed library.csv -o features.parquet``.
"""

import matplotlib.pyplot as plt
from rdkit import Chem
from rdkit.Chem import Draw
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from legs.data import load
from legs.sklearn import GeometricScattering

library = load("nci-5k", limit=2000).smiles

# %%
# Thousands of columns are highly correlated; fifty principal components keep most of the variance.
embed = make_pipeline(GeometricScattering(), StandardScaler(), PCA(50, whiten=True, random_state=0))
features = embed.fit_transform(library)
print(f"{len(features):,} molecules, {features.shape[1]} features each")

# %%
# The query is caffeine. It may or may not be in the library.
query = "Cn1cnc2c1c(=O)n(C)c(=O)n2C"
search = NearestNeighbors(n_neighbors=5).fit(features)
distances, places = search.kneighbors(embed.transform([query]))
neighbours = [library[i] for i in places[0]]
for distance, smiles in zip(distances[0], neighbours, strict=True):
    print(f"{distance:6.2f}  {smiles}")

# %%
# The query, then its nearest molecules in the library.
molecules = [Chem.MolFromSmiles(smiles) for smiles in (query, *neighbours)]
titles = ["caffeine", *(f"distance {d:.2f}" for d in distances[0])]
figure, axes = plt.subplots(1, len(molecules), figsize=(11, 2.4), layout="constrained")
for axis, molecule, title in zip(axes, molecules, titles, strict=True):
    axis.imshow(Draw.MolToImage(molecule, size=(400, 400)))
    axis.set_title(title, fontsize=9)
    axis.set_axis_off()
figure.savefig("similar.png", dpi=110)
