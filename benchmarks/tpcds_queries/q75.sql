-- Which brands of books sold a tenth less than in the previous year, without returned items?
WITH sold AS (
  SELECT
    ss_item_sk AS item_sk,
    ss_sold_date_sk AS date_sk,
    ss_quantity - coalesce(sr_return_quantity, 0) AS quantity,
    ss_ext_sales_price - coalesce(sr_return_amt, 0) AS amount
  FROM store_sales
  LEFT JOIN store_returns ON sr_item_sk = ss_item_sk AND sr_ticket_number = ss_ticket_number
  UNION ALL
  SELECT
    cs_item_sk,
    cs_sold_date_sk,
    cs_quantity - coalesce(cr_return_quantity, 0),
    cs_ext_sales_price - coalesce(cr_return_amount, 0)
  FROM catalog_sales
  LEFT JOIN catalog_returns ON cr_item_sk = cs_item_sk AND cr_order_number = cs_order_number
  UNION ALL
  SELECT
    ws_item_sk,
    ws_sold_date_sk,
    ws_quantity - coalesce(wr_return_quantity, 0),
    ws_ext_sales_price - coalesce(wr_return_amt, 0)
  FROM web_sales
  LEFT JOIN web_returns ON wr_item_sk = ws_item_sk AND wr_order_number = ws_order_number
),
yearly AS (
  SELECT
    d_year,
    i_brand_id,
    i_class_id,
    i_category_id,
    i_manufact_id,
    sum(quantity) AS quantity,
    sum(amount) AS amount
  FROM sold
  JOIN item ON i_item_sk = item_sk
  JOIN date_dim ON d_date_sk = date_sk
  WHERE i_category = 'Books'
  GROUP BY d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id
)
SELECT
  earlier.d_year AS earlier_year,
  later.d_year AS later_year,
  later.i_brand_id,
  later.i_class_id,
  later.i_category_id,
  later.i_manufact_id,
  earlier.quantity AS earlier_quantity,
  later.quantity AS later_quantity,
  later.quantity - earlier.quantity AS quantity_change,
  later.amount - earlier.amount AS amount_change
FROM yearly AS later
JOIN yearly AS earlier
  ON earlier.d_year = later.d_year - 1
  AND earlier.i_brand_id = later.i_brand_id
  AND earlier.i_class_id = later.i_class_id
  AND earlier.i_category_id = later.i_category_id
  AND earlier.i_manufact_id = later.i_manufact_id
WHERE later.d_year BETWEEN 1999 AND 2002 AND later.quantity < 0.9 * earlier.quantity
ORDER BY
  quantity_change, amount_change, later_year, later.i_brand_id, later.i_class_id,
  later.i_category_id, later.i_manufact_id
LIMIT 100
