// npm's @kubernetes/client-node. What a step is stands in tests/clients/steps.py.
import { readFileSync } from 'node:fs';
import * as k8s from '@kubernetes/client-node';

const namespace = process.env.NAMESPACE;
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const name = 'settings';
const map = (name, data = {}) => ({ metadata: { name }, data });
const list = () => core.listNamespacedConfigMap({ namespace });

const patch = async (strategy, body, more = {}) => {
  const header = k8s.setHeaderOptions('Content-Type', strategy);
  return (await core.patchNamespacedConfigMap({ namespace, name, body, ...more }, header)).data;
};

// What comes after each of the changes to an object; `next` gives what has come.
const change = async (name, next) => [
  await core.createNamespacedConfigMap({ namespace, body: map(name) }).then(next),
  await core
    .patchNamespacedConfigMap(
      { namespace, name, body: { data: { b: '2' } } },
      k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch),
    )
    .then(next),
  await core.deleteNamespacedConfigMap({ namespace, name }).then(next),
];

const arrivals = () => {
  const come = [];
  const waiting = [];
  const put = (event) => (waiting.length ? waiting.shift()(event) : come.push(event));
  const next = () => (come.length ? come.shift() : new Promise((resolve) => waiting.push(resolve)));
  return { put, next };
};

const watch = async () => {
  const { put, next } = arrivals();
  const resourceVersion = (await list()).metadata.resourceVersion;
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const event = (type, object) => object.metadata.name === 'watched' && put(type);
  const stop = await new k8s.Watch(config).watch(path, { resourceVersion }, event, () => undefined);
  const seen = await change('watched', next);
  stop.abort();
  return seen;
};

const inform = async () => {
  const { put, next } = arrivals();
  const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list);
  const events = { add: 'ADDED', update: 'MODIFIED', delete: 'DELETED' };
  for (const [event, said] of Object.entries(events)) {
    informer.on(event, (object) => object.metadata.name === 'followed' && put(said));
  }
  informer.on('error', (error) => put(String(error)));
  await informer.start();
  const seen = await change('followed', next);
  await informer.stop();
  return seen;
};

const apply = async () => {
  const applied = { apiVersion: 'v1', kind: 'ConfigMap', ...map(name, { a: '9' }) };
  const options = { fieldManager: 'script' };
  try {
    await patch(k8s.PatchStrategy.ServerSideApply, applied, options);
  } catch (error) {
    const forced = await patch(k8s.PatchStrategy.ServerSideApply, applied, { ...options, force: true });
    return { refused: error.code, forced };
  }
};

const devices = async () => {
  const api = config.makeApiClient(k8s.ResourceV1Api);
  const requests = [{ name: 'gpu', exactly: { deviceClassName: 'gpu.example.com' } }];
  const body = { metadata: { name: 'one-gpu' }, spec: { devices: { requests } } };
  const made = await api.createNamespacedResourceClaim({ namespace, body });
  const [slice] = (await api.listResourceSlice()).items;
  return {
    class: made.spec.devices.requests[0].exactly.deviceClassName,
    devices: slice.spec.devices.map((device) => device.name),
  };
};

const secure = async () => {
  const other = new k8s.KubeConfig();
  other.loadFromFile(process.env.SECURE_KUBECONFIG);
  return (await other.makeApiClient(k8s.CoreV1Api).readNamespace({ name: 'default' })).metadata.name;
};

const gone = async () => {
  await core.deleteNamespacedConfigMap({ namespace, name });
  return core.readNamespacedConfigMap({ namespace, name }).catch((error) => error.code);
};

const steps = {
  create: async () => (await core.createNamespacedConfigMap({ namespace, body: map(name, { a: '1' }) })).data,
  list: async () => (await list()).items.map((item) => item.metadata.name),
  watch,
  merge: () => patch(k8s.PatchStrategy.MergePatch, { data: { b: '2' } }),
  json: () => patch(k8s.PatchStrategy.JsonPatch, [{ op: 'add', path: '/data/c', value: '3' }]),
  strategic: () => patch(k8s.PatchStrategy.StrategicMergePatch, { data: { d: '4' } }),
  apply,
  informer: inform,
  devices,
  tls: secure,
  delete: gone,
};

const { version } = JSON.parse(readFileSync('node_modules/@kubernetes/client-node/package.json'));
console.log(JSON.stringify({ version }));
for (const [step, run] of Object.entries(steps)) {
  try {
    console.log(JSON.stringify({ step, saw: await run() }));
  } catch (error) {
    console.error(error);
    console.log(JSON.stringify({ step, error: String(error) }));
  }
}
process.exit(0);
