"""The family `backward`: what holds for every backward and finite differences do not see."""
