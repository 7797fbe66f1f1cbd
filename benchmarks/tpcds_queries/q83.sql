-- Which percentage of an item's returned quantity belongs to each channel, in some weeks?
WITH chosen AS (
  SELECT d_date_sk AS date_sk
  FROM date_dim
  WHERE d_week_seq IN (
    SELECT d_week_seq FROM date_dim WHERE d_year BETWEEN 2000 AND 2001 AND d_dom IN (1, 15)
  )
),
to_store AS (
  SELECT i_item_id, sum(sr_return_quantity) AS quantity
  FROM store_returns
  JOIN item ON i_item_sk = sr_item_sk
  JOIN chosen ON date_sk = sr_returned_date_sk
  GROUP BY i_item_id
),
by_catalog AS (
  SELECT i_item_id, sum(cr_return_quantity) AS quantity
  FROM catalog_returns
  JOIN item ON i_item_sk = cr_item_sk
  JOIN chosen ON date_sk = cr_returned_date_sk
  GROUP BY i_item_id
),
on_web AS (
  SELECT i_item_id, sum(wr_return_quantity) AS quantity
  FROM web_returns
  JOIN item ON i_item_sk = wr_item_sk
  JOIN chosen ON date_sk = wr_returned_date_sk
  GROUP BY i_item_id
),
joined AS (
  SELECT
    i_item_id,
    to_store.quantity AS store_quantity,
    by_catalog.quantity AS catalog_quantity,
    on_web.quantity AS web_quantity,
    to_store.quantity + by_catalog.quantity + on_web.quantity AS total
  FROM to_store
  JOIN by_catalog USING (i_item_id)
  JOIN on_web USING (i_item_id)
)
SELECT
  i_item_id,
  store_quantity,
  round(100 * store_quantity / nullif(total, 0), 2) AS store_percentage,
  catalog_quantity,
  round(100 * catalog_quantity / nullif(total, 0), 2) AS catalog_percentage,
  web_quantity,
  round(100 * web_quantity / nullif(total, 0), 2) AS web_percentage,
  round(total / 3, 2) AS mean
FROM joined
ORDER BY i_item_id, store_quantity
LIMIT 100
