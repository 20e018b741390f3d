"""Features of clips from other projects' files, brought into folders of clip features.

    python -m mmgen.data.compact.importers npz FOLDER --modality audio --out features/audio
    python -m mmgen.data.compact.importers hdf5 FILE.h5 --modality vision --out features/vision
    python -m mmgen.data.compact.importers rulstm LMDB --raw RAW --modality vision --out ...

The folder `features` then goes to `python -m mmgen.data.build compact --features features`, which
takes the clips that the data set has, masks those that are missing and refuses too many of them.
"""
