"""Digests of public files, so that a download is the file it should be.

Those of the TUDataset collection are as published in the registry of GraphDatasets.jl for the same
addresses. Files that nobody has published a digest of are known by the first download: it is noted
beside the file, and a later one must be the same.
"""

from __future__ import annotations

PUBLISHED = {
    "tu/AIDS.zip": "ef65a8095846588ffd6e17f95c1968a247d8ada7295a61209c401bda23d19ab9",
    "tu/BZR.zip": "584cb76f63cf5d0459cabfa254603b4e89823de0c03c96d60ab338f2d71a8b55",
    "tu/BZR_MD.zip": "f2ae267e19de998358bddeb20517768380ffb0594c594becbbd11aed538014d6",
    "tu/COIL-DEL.zip": "4dbaf79fc1d1b6fc90911b15faa086af0b5f2ce4600ecd93403af95a34e6e3e8",
    "tu/COIL-RAG.zip": "47f8be52a845c414299a4c9e6346acc074c5438fc12fe90b7d8da5c4613f667f",
    "tu/COLLAB.zip": "cb5b772bc4f3a4690d0601378a3fc993b092aeafd63e2b0f2330137dda1cdcc6",
    "tu/COLORS-3.zip": "380d8f9e03c73455a2b280f859b136c53c80544eabd83c801a9b5c97d7830bfc",
    "tu/DBLP_v1.zip": "67d8a383e8920e9f9e6d8afd55df4104619252f2d08772ee08ad8a76e57b547a",
    "tu/DD.zip": "d033d7aeb1a48c4b2b47cf0390e7fc9671de70d98c8df5b11e458d2ec5515cd2",
    "tu/ENZYMES.zip": "13d832eb6ffa084192daf6e5750250028a18437ee692c38d29a10cd60e18aaf4",
    "tu/MUTAG.zip": "c419bdc853c367d2d83da4973c45100954ae15e10f5ae2cddde6ca431f8207f6",
    "tu/Mutagenicity.zip": "6230f94ba246b76834fb51ffa138370477b7bf8a784ade92c5e0586780d2ae0e",
    "tu/NCI1.zip": "10e1458f3bd9224f14e6d7627e74dcfd13e48d376d73935e7bd2900590ef1d82",
    "tu/NCI109.zip": "96e521a294e3e9c088540e9e9caccf55e4ca6e97cf468d68445814467956abaf",
    "tu/PTC_FM.zip": "a06c80761db8ffd739a171f0d90cfa1f4dc965e1ea716ee5a25cc6cf5f4ae682",
    "tu/PTC_FR.zip": "c4b0083af725aaff27b41228591294922968bd5509179d24c6ea4d3996ed6072",
    "tu/PTC_MM.zip": "3846d6697330a446d46a1274b8708fcc153acdbcf59f649871bc0844bb012e4f",
    "tu/PTC_MR.zip": "5699a6d9f1bc5b3d71495f09ef50de53fa3e6bb24ead1150da678500229f5237",
    "tu/REDDIT-BINARY.zip": "982dc64ddade42a6365ba9c93f5080d0b9d315df0df492b57fd9fbb7e40dbe16",
    "tu/SYNTHETIC.zip": "3c0344e0cd6518d8b3f52bf45d152b1a9a007a523f5e91fc2bda929cc353c84d",
    "tu/SYNTHETICnew.zip": "07e27d6ff1c25d036df5bf3593b1bf4676f51e656eb982e903dea4718634ed5e",
    "tu/Synthie.zip": "c5bada5ffe42b4a901d50e75f10c3f969fb962f94acaab0265f46097496154d5",
    "tu/TRIANGLES.zip": "d14094eecf75fd60cf08b9d18d33a7e8c7657ff07e554956f0230fba9bf63b60",
    "tu/aspirin.zip": "b01b6b73841768670a3a79d04e04a79bb6027ee87a335b4cd3e073fbf6523fb4",
    "tu/benzene.zip": "d82d921cb20453b12c3e288d7b25e46d5a6c60052e8e276558078fb31e3503f1",
}
