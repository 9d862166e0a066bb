"""Risk: what an intruder could do with a release, each as the story of an attacker."""

from microveil.measures.base import registry
from microveil.measures.risk import (
    attribute_inference,
    closest,
    extremes,
    interval,
    label_risk,
    linkability,
    linkage,
    matches,
    membership,
    reconstruction,
    singling_out,
)

# A new attack is a function with its story and its declaration in one of these files; a new file is a name here.
MEASURES = {
    **registry("risk", linkage, interval, extremes, singling_out, linkability, attribute_inference),
    **registry("risk", reconstruction, closest, matches, membership, label_risk),
}
