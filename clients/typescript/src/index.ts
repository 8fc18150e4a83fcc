/** A client of a Swiftlet service, with the types of its OpenAPI document. */
import createFetchClient, { type Client } from "openapi-fetch";
import type { paths } from "./contract.js";

export type { components, paths } from "./contract.js";

export interface Options {
  /** What the service needs as `Authorization: Bearer KEY`, if it needs a key. */
  key?: string;
  /** How long a request waits in all for a service that answers 429; 60 by default. */
  patienceSeconds?: number;
}

const SHORTEST_PAUSE_SECONDS = 0.05;

/** Asks the service at `url`; a request that is answered 429 is sent again after `Retry-After`. */
export function createClient(url: string, options: Options = {}): Client<paths> {
  const patienceSeconds = options.patienceSeconds ?? 60;

  async function send(request: Request): Promise<Response> {
    for (let waitedSeconds = 0; ; ) {
      const answer = await fetch(request.clone());
      const asked = Number(answer.headers.get("retry-after") ?? 0);
      const pauseSeconds = Math.max(asked || 0, SHORTEST_PAUSE_SECONDS);
      waitedSeconds += pauseSeconds;
      if (answer.status !== 429 || waitedSeconds > patienceSeconds) return answer;
      await answer.body?.cancel();
      await new Promise((resolve) => setTimeout(resolve, 1000 * pauseSeconds));
    }
  }

  const headers = options.key === undefined ? {} : { Authorization: `Bearer ${options.key}` };
  return createFetchClient<paths>({ baseUrl: url, headers, fetch: send });
}
