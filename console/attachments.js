// What goes along with a prompt: pictures and files, as far as the agent takes them.
import { t } from './texts.js';

export const PICTURES = /^image\/(png|jpeg|gif|webp|avif)$/;
/** One message has 16 MiB, and base64 makes four bytes of three. */
const MOST_BYTES = 5 << 20;
const MOST_IN_ALL = 10 << 20;
const MOST_FILES = 8;
const TEXT = /^(text\/|application\/(json|xml|javascript|typescript|toml|yaml|x-sh|sql|graphql))/;
const PREVIEWED = 512 << 10;

let nextKey = 1;

/**
 * @param {{image?: boolean, embeddedContext?: boolean}} takes `promptCapabilities` of the agent
 * @returns {Promise<{files: object[], faults: string[]}>}
 */
export async function attach(before, given, takes) {
  const files = [...before];
  const faults = [];
  for (const file of given) {
    const size = files.reduce((sum, one) => sum + one.size, file.size);
    if (files.length >= MOST_FILES) faults.push(t.tooManyFiles(MOST_FILES));
    else if (file.size > MOST_BYTES || size > MOST_IN_ALL) faults.push(t.tooLarge(file.name, MOST_BYTES >> 20, MOST_IN_ALL >> 20));
    else {
      const block = await blockOf(file, takes).catch(() => null);
      if (block) files.push({ key: nextKey++, name: file.name || t.image, size: file.size, block, preview: preview(block) });
      else faults.push(t.notTaken(file.name));
    }
  }
  return { files, faults: [...new Set(faults)] };
}

async function blockOf(file, takes) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mimeType = file.type || undefined;
  if (PICTURES.test(file.type) && takes.image) return { type: 'image', mimeType, data: base64(bytes) };
  const text = TEXT.test(file.type) || !file.type || file.size < 1 << 20 ? asText(bytes) : null;
  const uri = `attachment:///${encodeURIComponent(file.name)}`;
  if (takes.embeddedContext) {
    const content = text === null ? { blob: base64(bytes) } : { text };
    return { type: 'resource', resource: { uri, mimeType, ...content } };
  }
  // Every agent takes text.
  if (text === null) return null;
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return { type: 'text', text: `\n\n${file.name}\n${fence}\n${text}\n${fence}\n` };
}

/** Nothing, if it is none. */
function asText(bytes) {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function base64(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

function preview(block) {
  return block.type === 'image' && block.data.length < PREVIEWED ? `data:${block.mimeType};base64,${block.data}` : '';
}

export const kilobytes = (size) => (size < 1024 ? `${size} B` : size < 1 << 20 ? `${Math.round(size / 1024)} KB`
  : `${(size / (1 << 20)).toFixed(1)} MB`);
