"""Write the names of a team's ConfigMaps into one ConfigMap, `register`, which all teams share."""

import asyncio

import httpx

from kubedra import ApiError, AsyncClient


async def run(client: AsyncClient, team: str) -> None:
    done = set()
    while True:
        try:
            for item in await client.list("configmaps"):
                name = item["metadata"]["name"]
                if item["metadata"].get("labels", {}).get("team") == team and name not in done:
                    await register(client, name)
                    done.add(name)
        except (ApiError, httpx.TransportError):
            pass  # the next round tries again
        await asyncio.sleep(1)


async def register(client: AsyncClient, name: str) -> None:
    found = await client.get("configmap/register")
    names = {*found.get("data", {}).get("names", "").split(), name}
    # The bug: another team may have written since `get`. With the version that was read, the server would refuse the
    # patch with a conflict: "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]}
    await client.patch("configmap/register", {"data": {"names": " ".join(sorted(names))}})
