// What @kubernetes/client-node does with the server of $KUBECONFIG; prints one line of JSON.
import * as k8s from '@kubernetes/client-node';

const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const namespace = 'default';
const name = 'settings';
const seen = [];

const list = () => core.listNamespacedConfigMap({ namespace });
const informer = k8s.makeInformer(config, `/api/v1/namespaces/${namespace}/configmaps`, list);
const gone = new Promise((resolve, reject) => {
  informer.on('add', (object) => seen.push(`add ${object.metadata.name}`));
  informer.on('update', (object) => seen.push(`update ${Object.keys(object.data).sort()}`));
  informer.on('delete', (object) => resolve(seen.push(`delete ${object.metadata.name}`)));
  informer.on('error', reject);
});
await informer.start();

await core.createNamespacedConfigMap({ namespace, body: { metadata: { name }, data: { a: '1' } } });
const patch = (strategy, body, more = {}) =>
  core.patchNamespacedConfigMap({ namespace, name, body, ...more }, k8s.setHeaderOptions('Content-Type', strategy));
await patch(k8s.PatchStrategy.MergePatch, { data: { b: '2' } });
await patch(k8s.PatchStrategy.StrategicMergePatch, { data: { c: '3' } });
await patch(k8s.PatchStrategy.JsonPatch, [{ op: 'add', path: '/data/d', value: '4' }]);
const applied = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { a: '9' } };
let conflict = 0;
try {
  await patch(k8s.PatchStrategy.ServerSideApply, applied, { fieldManager: 'script' });
} catch (error) {
  conflict = error.code;
}
const forced = await patch(k8s.PatchStrategy.ServerSideApply, applied, { fieldManager: 'script', force: true });
const listed = (await list()).items.map((item) => item.metadata.name);
await core.deleteNamespacedConfigMap({ namespace, name });
await gone;
await informer.stop();
console.log(JSON.stringify({ seen, conflict, data: forced.data, listed }));
process.exit(0);
