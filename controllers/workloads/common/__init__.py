"""Shared parts of the controllers of pods made from templates.

    references     controller references; adoption and release
    expectations   requested changes that the informers lack
    pod_control    creating and deleting pods, with events; slow-start batches
    owned          the objects of an owner, and the owners affected by a change
    pod_states     active, ready, available; order of deletion
    templates      names and hashes of templates, as upstream computes them
    history        ControllerRevisions
    conditions     conditions of the kinds of group apps

A controller of this family claims the objects matched by its selector (`Claimer`), counts them, creates or deletes the
difference, and writes the computed status. Facts: upstream's pkg/controller.
"""
