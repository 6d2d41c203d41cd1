"""The host program: one zipapp, standard library only, Python 3.9 and later. It knows only `controlplane.protocol`."""
