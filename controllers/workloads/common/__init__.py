"""What the controllers of pods made from templates share.

    references     which object controls another; adopting and releasing
    expectations   what a controller has asked for and not seen yet
    podcontrol     creating and deleting pods, with events; slow-start batches
    owned          the pods of an owner, and the owners that a pod's change concerns
    podstates      active, ready, available; which pods go first
    templates      names and hashes of templates, as upstream computes them
    history        ControllerRevisions
    conditions     conditions of the kinds of group apps

A controller of this family claims what its selector matches (`Claimer`), counts what it finds, makes or deletes the
difference, and writes the status that it computed from what it found. Facts: upstream's pkg/controller.
"""
