/** The emulators' well-known key. It is public. */
export const key: string;

/** The path of the program. */
export const program: string;

export interface Emulator {
  /** The account's address, for `new CosmosClient({ endpoint, key })`. */
  endpoint: string;
  key: string;
  connectionString: string;
  /** Stops the emulator. Data in memory is lost. */
  stop(): Promise<void>;
}

/**
 * Starts an emulator on a free port, with its data in memory.
 * @param options options of the program, see `npx cdb-emulator --help`
 */
export function start(options?: string[]): Promise<Emulator>;
