print('not a harness: provenance only digests it')
