"""A Kubernetes cluster and a Pulumi engine on loopback, built from pinned Go modules, to try and test the package.

Real: etcd, kube-apiserver, controller-manager, scheduler, Kueue, the Pulumi engine and the pulumi-kubernetes provider.
Simulated by kwok: kubelets and GPUs. `python -m sandbox up` starts one; `sandbox.cluster.Sandbox` does the same from
Python. Not part of the wheel.
"""
