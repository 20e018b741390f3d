"""CompAct: windows of four narrated clips, and splits whose targets are new compositions."""
