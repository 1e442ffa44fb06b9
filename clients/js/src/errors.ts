// One line on what is missing for the errors that a user can remedy.

/** What the client cannot do. The message ends with the remedy. */
export class RagError extends Error {
  override name = "RagError";
}

/** The database does not have the extension, or an older version of it. */
export class ExtensionMissing extends RagError {
  override name = "ExtensionMissing";
}

/** The role lacks a right. */
export class NotAllowed extends RagError {
  override name = "NotAllowed";
}

/** No model is there that could answer or embed. */
export class ModelMissing extends RagError {
  override name = "ModelMissing";
}

/** The server cannot be reached, refuses the connection, or is too old. */
export class NoConnection extends RagError {
  override name = "NoConnection";
}

const REFUSED = new Set(["ECONNREFUSED", "ENOTFOUND", "ETIMEDOUT", "ENOENT", "EACCES"]);

/** Returns the error to throw for one of the server or of the driver. */
export function explained(error: unknown, role = "your role"): unknown {
  if (!(error instanceof Error)) return error;
  const { code = "", hint } = error as Error & { code?: string; hint?: string };
  const told = hint ? ` ${hint}` : "";
  const cause = { cause: error };
  if (REFUSED.has(code) || code.startsWith("28")) {
    const reason = error.message || code;
    return new NoConnection(`${reason}. Check host, port, user and password of the connection.`, cause);
  }
  if (code === "42501") {
    const remedy = told || ` Have an administrator run: GRANT rag_reader TO ${role}.`;
    return new NotAllowed(`${error.message}.${remedy}`, cause);
  }
  if (code === "42883" && error.message.includes("rag_")) {
    return new ExtensionMissing(
      `${error.message}. The extension rag is too old for this client: install a newer one, and ` +
        "run ALTER EXTENSION rag UPDATE.",
      cause,
    );
  }
  if (code === "22023" && `${error.message}${told}`.includes("chat_model")) {
    return new ModelMissing(`${error.message}.${told}`, cause);
  }
  return error;
}
