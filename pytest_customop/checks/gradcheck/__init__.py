"""The family `gradcheck`: gradients compared with finite differences."""
