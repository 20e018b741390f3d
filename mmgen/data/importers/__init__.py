"""Features of other projects' files, brought into the feature store.

    python -m mmgen.data.importers bottom_up FILE.tsv ... --out DIR
    python -m mmgen.data.importers hdf5 FILE.h5 --map MAP.json --boxes xyxy_unit --out DIR
    python -m mmgen.data.importers npz FOLDER --boxes xyxy_pixels --out DIR

Each importer is a generator of store items and, where the source does not say it, takes the box
convention from the user: boxes of a wrong convention look like any others.
"""
