"""Random traces on the real Kueue and on the simulated one, and whether both show the same (`traces`: what is done;
`sightings`: what is seen; `real` and `likeness`: done there and here, and compared)."""
